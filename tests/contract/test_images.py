"""What is in the images: packages that do their work without network, on a read-only root."""

import json
import os
import subprocess
import sys
from pathlib import Path

from sandbox_core.inventory import inventory_request, read_inventory
from sandbox_core.outcome import Outcome
from tests.contract.runners import engine_of_built, opened
from tests.contract.runs import contents, describe, run

ROOT = Path(__file__).resolve().parents[2]
USUAL = """
import io, warnings
warnings.simplefilter("error")
import docx, networkx, pdfplumber, pptx, pypdf, qrcode
import pandas as pd, plotly.express as px, seaborn as sns, statsmodels.api as sm
import matplotlib.pyplot as plt
from reportlab.pdfgen.canvas import Canvas

frame = pd.DataFrame({"x": [1, 2, 3, 4], "y": [3.1, 4.9, 7.2, 8.8]})
print(round(sm.OLS(frame["y"], sm.add_constant(frame["x"])).fit().params["x"], 2))
print(networkx.shortest_path(networkx.cycle_graph(6), 0, 2))

page = Canvas("page.pdf")
page.drawString(72, 720, "Hello, PDF")
page.save()
print(pypdf.PdfReader("page.pdf").pages[0].extract_text().strip())
with pdfplumber.open("page.pdf") as pdf:
    print(pdf.pages[0].extract_text().strip())

letter = docx.Document()
letter.add_heading("Title")
letter.save("letter.docx")
print(docx.Document("letter.docx").paragraphs[0].text)
slides = pptx.Presentation()
slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "Slide"
slides.save("slides.pptx")

qrcode.make("text").save("code.png")
px.line(frame, x="x", y="y").write_html("chart.html")
# Fonts that Latin ones lack are found in spite of seaborn's own styles.
sns.set_theme()
sns.set_style("whitegrid")
sns.lineplot(frame, x="x", y="y").set_title("图表 グラフ 차트 \\U0001f600")
plt.savefig("plot.png")
plt.close()
"""
DATA = """
import warnings
import cv2, duckdb, numpy, pandas, polars, pyarrow.parquet, pymupdf, weasyprint

pandas.DataFrame({"a": [1, 2, 3]}).to_parquet("a.parquet")
print(polars.read_parquet("a.parquet")["a"].sum())
print(duckdb.sql("SELECT max(a) FROM 'a.parquet'").fetchall()[0][0])
print(cv2.resize(numpy.zeros((4, 4, 3), "uint8"), (2, 2)).shape)
html = "<style>body {font-family: sans-serif}</style><h1>Ünï 图表</h1>"
weasyprint.HTML(string=html).write_pdf("page.pdf")
with pymupdf.open("page.pdf") as pdf:
    print(pdf[0].get_text().strip())
    print(len(pdf[0].get_fonts()) > 1, pdf[0].get_pixmap().width > 100)
"""


def test_the_usual_packages_work(docker_engine, image):
    with opened(docker_engine, image) as runner:
        result = run(runner, USUAL, seconds=90)
    assert result.outcome is Outcome.OK, describe(result)
    assert str(result.stdout).splitlines() == [
        "1.94",
        "[0, 1, 2]",
        *["Hello, PDF"] * 2,
        "Title",
    ]
    assert str(result.stderr) == ""
    assert contents(result).keys() == {
        *("page.pdf", "letter.docx", "slides.pptx"),
        *("code.png", "chart.html", "plot.png"),
    }


def test_an_image_tells_what_it_is_made_of(docker_host, image):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "sbom.py", image],
        env={**os.environ, "DOCKER_HOST": docker_host},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["bomFormat"] == "CycloneDX"
    names = {entry["name"] for entry in document["components"]}
    assert {"numpy", "pandas", "bash", "libc6", "nodejs"} <= names


def test_the_larger_packages_work_in_their_image(docker_host, data_image):
    with opened(engine_of_built(docker_host, data_image), data_image) as runner:
        result = run(runner, DATA, seconds=90, memory_mib=1024)
    assert result.outcome is Outcome.OK, describe(result)
    assert str(result.stdout).splitlines() == [
        *("6", "3", "(2, 2, 3)"),
        *("Ünï 图表", "True True"),
    ], describe(result)
    assert str(result.stderr) == ""


def test_the_slim_image_has_the_same_languages_and_no_packages(docker_host, slim_image):
    with opened(engine_of_built(docker_host, slim_image), slim_image) as runner:
        found = read_inventory(runner.run(inventory_request()))
    assert list(found.languages) == ["python", "bash", "javascript", "perl", "sql"]
    assert "numpy" not in found.packages
