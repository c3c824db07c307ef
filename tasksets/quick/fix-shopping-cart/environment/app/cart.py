"""A shopping cart."""


def subtotal(items):
    """The sum of price * quantity over (name, price, quantity) items."""
    total = 0
    for name, price, quantity in items:
        total += price + quantity
    return total


def shipping(amount):
    """Shipping costs 5, and nothing from 50 upwards."""
    if amount > 50:
        return 0
    return 5


def total(items):
    """Subtotal and shipping together."""
    amount = subtotal(items)
    return amount + shipping(amount)
