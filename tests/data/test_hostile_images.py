"""Image files that are damaged, lie about their size, or are no images: named, left out, and never unpacked."""

import io
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from deep_files import get_testdata_file, load, pydicom, tifffile, two, write_dicom, write_png, write_tiff
from PIL import Image

import unihssl
from unihssl.data import decode as decode_module
from unihssl.data.dicom import read_dicom
from unihssl.data.image_format import NoDecoderError, codestream_size
from unihssl.data.images import find_images, upright_size
from unihssl.data.rendering import Rendering
from unihssl.data.tiff import read_tiff
from unihssl.errors import UserError


def test_what_cannot_be_read_is_named(tmp_path):
    folders = two(tmp_path, write_dicom, 4095, "int16")
    frames = Path(get_testdata_file("rtdose.dcm")).read_bytes()
    (folders[0] / "a/0.dcm").write_bytes(frames)
    (folders[0] / "a/2.dcm").write_bytes(Path(get_testdata_file("rtplan.dcm")).read_bytes())
    about = pydicom.dcmread(folders[0] / "a/4.dcm")
    about.file_meta.TransferSyntaxUID = "1.2.3.4"
    about.save_as(folders[0] / "a/4.dcm", implicit_vr=False, little_endian=True)
    (note,) = [note for note in load(*folders).labeled.domain.notes if "unreadable" in note]
    assert "a/0.dcm: it has several frames: save each as a file of its own" in note
    assert "a/2.dcm: a DICOM file without an image (RTPLAN)" in note
    assert "a/4.dcm: its pixels cannot be decoded (transfer syntax 1.2.3.4)" in note
    assert "install python-gdcm or pylibjpeg-libjpeg" in note


@pytest.mark.parametrize(("package", "extra"), [("pydicom", "medical"), ("tifffile", "scientific")])
def test_a_missing_package(tmp_path, monkeypatch, package, extra):
    write, dtype = (write_dicom, "int16") if package == "pydicom" else (write_tiff, "float64")
    folders = two(tmp_path, write, 4095, dtype)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs {package}.*pip install 'unihssl\[{extra}\]'"):
        load(*folders)


def test_what_may_not_be_opened(tmp_path):
    folders = two(tmp_path, write_png, 4095, "uint16")
    os.mkfifo(folders[0] / "a/pipe.png")
    (folders[0] / "a/device.png").symlink_to("/dev/zero")
    (folders[0] / "a/program.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
    Image.new("L", (8, 8)).save(folders[0] / "a/other.png", format="GIF")
    large = bytearray((folders[0] / "a/0.png").read_bytes())
    large[16:24] = (13370).to_bytes(4, "big") * 2
    crc = zlib.crc32(large[12:29]).to_bytes(4, "big")
    large[29:33] = crc
    (folders[0] / "a/large.png").write_bytes(large)
    (note,) = [note for note in load(*folders).labeled.domain.notes if "unreadable" in note]
    assert "skipped 5 of 17 images" in note
    for why in ("a/device.png, a/pipe.png: not a regular", "a/other.png, a/program.png: not an im"):
        assert why in note
    assert "large.png: 13370x13370x1 are 178,756,900 values, more than 89,478,485: make it smaller" in note


def test_files_left_out_are_counted(tmp_path):
    folders = two(tmp_path, write_png, 4095, "uint16")
    for name in ("1.HEIC", "2.heic", "3.nii.gz", "list.txt"):
        (folders[1] / "a" / name).touch()
    note = "3 files are left out by suffix (2 .heic, 1 .nii): convert to PNG, JPEG or TIFF"
    assert any(note in text for text in load(*folders).unlabeled.domain.notes)


def test_a_file_without_a_suffix_is_what_its_bytes_say(tmp_path):
    unlabeled = two(tmp_path, write_png, 4095, "uint16")[1]
    plain = len(find_images(unlabeled))
    image = next(unlabeled.rglob("*.png")).read_bytes()
    for name, content in {"IM0": image, "1.2.840.55": image, "notes": b"text", "list.7z": image, "empty": b""}.items():
        (unlabeled / "a" / name).write_bytes(content)
    (unlabeled / "a" / "scan").write_bytes(bytes(128) + b"DICM")
    os.mkfifo(unlabeled / "a" / "pipe")
    added = {path.name for path in find_images(unlabeled)} - {f.name for f in unlabeled.rglob("*.png")}
    assert added == {"IM0", "1.2.840.55", "scan"} and len(find_images(unlabeled)) == plain + 3


@pytest.mark.parametrize("kind", ["JPEG", "JPEG2000", "jp2 in a box"])
def test_the_size_of_a_compressed_image_is_its_own(kind):
    file = io.BytesIO()
    image = Image.fromarray(np.zeros((37, 53, 3), np.uint8))
    image.save(file, "JPEG" if kind == "JPEG" else "JPEG2000", **({"no_jp2": True} if kind == "JPEG2000" else {}))
    assert codestream_size(file.getvalue()) == (37, 53)
    assert codestream_size(file.getvalue()[:20]) is None and codestream_size(b"GIF89a") is None


@pytest.mark.parametrize("kind", ["JPEG", "JPEG2000"])
def test_a_small_dicom_with_a_large_image_in_it_is_not_decoded(kind, monkeypatch):
    """Room would be made for the large one."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((90, 90), np.uint8)).save(file, kind, **({"no_jp2": True} if kind == "JPEG2000" else {}))
    about = pydicom.Dataset()
    about.Rows, about.Columns, about.SamplesPerPixel, about.PhotometricInterpretation = 16, 16, 1, "MONOCHROME2"
    about.BitsAllocated, about.BitsStored, about.HighBit, about.PixelRepresentation = 8, 8, 7, 0
    about.PixelData = pydicom.encaps.encapsulate([file.getvalue()])
    about["PixelData"].VR = "OB"
    about.file_meta = pydicom.dataset.FileMetaDataset()
    names = {"JPEG": "JPEGBaseline8Bit", "JPEG2000": "JPEG2000Lossless"}
    about.file_meta.TransferSyntaxUID = getattr(pydicom.uid, names[kind])
    whole = io.BytesIO()
    about.file_meta.MediaStorageSOPClassUID = about.file_meta.MediaStorageSOPInstanceUID = "1.2"
    pydicom.dcmwrite(whole, about, enforce_file_format=True, implicit_vr=False, little_endian=True)
    monkeypatch.setattr("unihssl.data.dicom._stored", lambda about: pytest.fail("decoded"))
    with pytest.raises(ValueError, match="not of the 16x16 that its header says"):
        read_dicom(whole.getvalue())


def test_a_deflated_dicom_is_not_unpacked(monkeypatch):
    content = Path(pydicom.data.get_testdata_file("image_dfl.dcm")).read_bytes()
    monkeypatch.setattr("zlib.decompress", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(ValueError, match="deflated, which may unpack to any size"):
        read_dicom(content)


@pytest.mark.parametrize("cut", ["preamble", "preamble and meta information"])
def test_a_dicom_without_its_preamble_is_named(tmp_path, cut):
    folders = two(tmp_path, write_dicom, 4095, "int16")
    file = folders[0] / "a/0.dcm"
    if cut == "preamble":
        file.write_bytes(file.read_bytes()[132:])
    else:
        pydicom.Dataset(pydicom.dcmread(file)).save_as(file, implicit_vr=True, little_endian=True)
    assert pydicom.dcmread(file, force=True).Rows == 24
    (note,) = [note for note in load(*folders).labeled.domain.notes if "unreadable" in note]
    assert "(a/0.dcm: a DICOM data set without the preamble of a file: write it as one, such as with dcmconv)" in note


def test_a_text_that_names_deflation_is_not_deflated(tmp_path):
    about = pydicom.dcmread(pydicom.data.get_testdata_file("CT_small.dcm"))
    about.ImageComments = "not 1.2.840.10008.1.2.1.99"
    about.RescaleSlope = 2
    del about.RescaleIntercept  # which is 0 then
    about.save_as(tmp_path / "a.dcm")
    found = read_dicom((tmp_path / "a.dcm").read_bytes())
    np.testing.assert_array_equal(found.pixels[..., 0], 2 * about.pixel_array)


def test_a_directory_of_dicom_files_is_no_image(tmp_path):
    for name in ("DICOMDIR", "dicomdir", "IM1", "a.IMA"):
        (tmp_path / name).write_bytes(bytes(128) + b"DICM")
    assert [path.name for path in find_images(tmp_path)] == ["IM1", "a.IMA"]


def test_what_no_package_decodes_is_not_remembered(tmp_path, monkeypatch):
    """Another package that is installed later may decode it."""
    folders = two(tmp_path, write_png, 4095, "uint16")
    real, broken = decode_module.render, {"on": True}

    def render_unless_broken(content, how):
        if broken["on"]:
            raise NoDecoderError("no plugin")
        return real(content, how)

    paths = find_images(folders[0])
    monkeypatch.setattr(decode_module, "render", render_unless_broken)
    digests, unreadable, _ = decode_module.decode_files(paths, Rendering((8, 8)), lambda *_: None)
    assert len(unreadable) == len(paths) and set(digests) == {decode_module.NOT_READ}
    broken["on"] = False
    digests, unreadable, _ = decode_module.decode_files(paths, Rendering((8, 8)), lambda *_: None)
    assert not unreadable and decode_module.NOT_READ not in digests
    monkeypatch.setattr(
        "unihssl.data.survey.read_values", lambda *_: (_ for _ in ()).throw(NoDecoderError("no plugin"))
    )
    load(*folders, cache=str(tmp_path / "cache"))
    assert not list((tmp_path / "cache").rglob("surveys/*.npz"))


def test_an_array_with_an_image_of_nothing_is_refused_in_one_line(image_arrays):
    x = image_arrays[0][0].astype(np.float32) * 100
    x[3] = np.nan
    with pytest.raises(UserError, match=r"image 3 of the array: .*; remove it"):
        unihssl.fit((x, image_arrays[0][1]), x, backbone="small_cnn", epochs=1, verbose=False)


def test_a_tiff_whose_tiles_have_sizes_of_their_own_is_not_decoded(tmp_path):
    content = io.BytesIO()
    tifffile.imwrite(content, np.zeros((32, 32, 5), np.uint16), photometric="minisblack", tile=(16, 16))
    whole = bytearray(content.getvalue())
    at = whole.index(struct.pack("<HHIHH", 259, 3, 1, 1, 0))  # the entry that names the compression
    whole[at + 8 : at + 10] = struct.pack("<H", 34712)
    with pytest.raises(ValueError, match="with JPEG2000 is not read"):
        read_tiff(bytes(whole), 5)


def test_the_size_of_a_png_is_read_without_its_pixels(tmp_path, monkeypatch):
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "a.png")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda image: pytest.fail("decoded"))
    assert upright_size(tmp_path / "a.png") == (20, 30)
