def alpha():
    # TODO: handle empty input
    return 1
