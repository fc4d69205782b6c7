print("fine ✓ 漢字 🎉")
print("lone \ud800 surrogate")
