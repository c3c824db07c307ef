from lengths import km_to_m, m_to_cm
from weights import g_to_kg, kg_to_g

assert km_to_m(3) == 3000, "km_to_m is wrong"
assert m_to_cm(2) == 200, "m_to_cm is wrong"
assert kg_to_g(5) == 5000, "kg_to_g is wrong"
assert g_to_kg(4000) == 4, "g_to_kg is wrong"
print("all tests passed")
