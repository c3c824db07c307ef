import sys


def countdown(start):
    for number in range(start, 1, -1):
        print(number)
    print("liftoff")


countdown(int(sys.argv[1]))
