import sys


def main():
    try:
        sys.exit(6)
    finally:
        print("finally")


main()
