import subprocess
import sys

print(
    subprocess.check_output([sys.executable, "-c", "import sys; print(sys.argv)", "x"])
)
result = subprocess.run(
    [sys.executable, "-m", "json.tool"], input=b'{"a":1}', capture_output=True
)
print(result)
subprocess.run(["sh", "-c", "yes | head -n 1; echo $GREETING; cat"])
