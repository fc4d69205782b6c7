"""What an image is made of, told by CycloneDX."""

from scripts.sbom import document_of

FACTS = {
    "debian": [
        ["bash", "5.2.15-2+b7", "amd64", "bash", "5.2.15-2"],
        ["libc6", "2.36-9", "amd64", "glibc", "2.36-9"],
    ],
    "pypi": [
        ["typing_extensions", "4.16.0", "PSF-2.0"],
        ["old", "1.0", ""],
        ["old", "1.0", ""],
    ],
    "system": ["debian", "12"],
}


def test_components_are_named_as_package_urls_and_each_is_there_once():
    document = document_of("image:1", "sha256:12", FACTS)
    assert [entry["purl"] for entry in document["components"]] == [
        "pkg:deb/debian/bash@5.2.15-2%2Bb7?arch=amd64&distro=debian-12",
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12"
        "&upstream=glibc%402.36-9",
        "pkg:pypi/old@1.0",
        "pkg:pypi/typing-extensions@4.16.0",
    ]
    last = document["components"][-1]
    assert (last["name"], last["version"]) == ("typing_extensions", "4.16.0")
    assert last["licenses"] == [{"expression": "PSF-2.0"}]
    assert document["metadata"]["component"]["version"] == "sha256:12"


def test_the_same_image_gives_the_same_document():
    one, other = (document_of("x", image, FACTS) for image in ("sha256:1", "sha256:2"))
    assert one == document_of("x", "sha256:1", FACTS)
    assert one["serialNumber"] != other["serialNumber"]
