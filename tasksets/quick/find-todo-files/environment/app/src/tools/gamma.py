GAMMA = 3  # TODO rename
# TODO test
