print("leaving")
exit(4)
