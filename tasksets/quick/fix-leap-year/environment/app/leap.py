import sys


def is_leap(year):
    return year % 4 == 0


print("yes" if is_leap(int(sys.argv[1])) else "no")
