def main():
    print("started as", __name__)


if __name__ == "__main__":
    main()
