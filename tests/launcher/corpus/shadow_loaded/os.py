ORIGIN = "beside the program"
