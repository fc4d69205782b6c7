import io
import unittest


class Sums(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1 + 1, 2)

    def test_bad(self):
        self.assertEqual(1 + 1, 3)


runner = unittest.TextTestRunner(stream=io.StringIO())
program = unittest.main(testRunner=runner, exit=False, argv=["main"])
for _, text in program.result.failures:
    print(text)
raise SystemExit(not program.result.wasSuccessful())
