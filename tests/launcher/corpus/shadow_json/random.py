ORIGIN = "own random"
