errors = [ValueError("a"), TypeError("b")]
try:
    group = ExceptionGroup
except NameError:
    group = Exception
raise group("several", errors)
