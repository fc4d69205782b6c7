def fail(*values):
    raise ValueError(values)


fail(
    1,
    2,
)
