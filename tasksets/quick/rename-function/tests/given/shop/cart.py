from prices import calc


class Cart:
    def __init__(self):
        self.names = []

    def add(self, name):
        self.names.append(name)

    def total(self):
        return calc(self.names)
