import runpy

if __name__ == "__main__":
    print(sorted(runpy.run_path(__file__, run_name="other")["found"]))

found = {__name__}
