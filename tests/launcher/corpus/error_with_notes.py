error = KeyError("missing")
if hasattr(error, "add_note"):
    error.add_note("look in the other drawer")
raise error
