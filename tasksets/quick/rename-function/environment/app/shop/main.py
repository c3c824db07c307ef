from cart import Cart
from prices import calc

cart = Cart()
cart.add("tea")
cart.add("jam")
print("cart:", cart.total())
print("all:", calc(["tea", "bread", "jam"]))
