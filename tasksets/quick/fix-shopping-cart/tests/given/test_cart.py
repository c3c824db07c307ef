from cart import shipping, subtotal, total

assert subtotal([("tea", 3, 4), ("jam", 6, 1)]) == 18, "subtotal is wrong"
assert shipping(49) == 5, "shipping(49) is wrong"
assert shipping(50) == 0, "shipping(50) is wrong"
assert total([("lamp", 25, 2)]) == 50, "total is wrong"
print("all tests passed")
