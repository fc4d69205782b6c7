exec(compile("6 * 7", "cell", "single"))
