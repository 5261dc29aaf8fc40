"""Office-31 (Saenko et al., 2010): office objects in shop pictures, camera photographs and webcam pictures."""

from unihssl.data.catalog.dataset import Dataset, domain_of
from unihssl.data.catalog.layouts import find_domain

# 4,110 images in all. The 4,652 that the paper and others state cannot be found anywhere.
_COUNTS = """
    class           amazon dslr webcam
    back_pack          92  12  29
    bike               82  21  21
    bike_helmet        72  24  28
    bookcase           82  12  12
    bottle             36  16  16
    calculator         94  12  31
    desk_chair         91  13  40
    desk_lamp          97  14  18
    desktop_computer   97  15  21
    file_cabinet       81  15  19
    headphones         99  13  27
    keyboard          100  10  27
    laptop_computer   100  24  30
    letter_tray        98  16  19
    mobile_phone      100  31  30
    monitor            99  22  43
    mouse             100  12  30
    mug                94   8  27
    paper_notebook     96  10  28
    pen                95  10  32
    phone              93  13  16
    printer           100  15  20
    projector          98  23  30
    punchers           98  18  27
    ring_binder        90  10  40
    ruler              75   7  11
    scissors          100  18  25
    speaker            99  26  30
    stapler            99  21  24
    tape_dispenser     96  22  23
    trash_can          64  15  21
"""
_CLASSES, *_COLUMNS = zip(*(line.split() for line in _COUNTS.strip().splitlines()[1:]), strict=True)


DATASET = Dataset(
    name="office-31",
    title="Office-31",
    classes=_CLASSES,
    domains=tuple(
        domain_of(name, name[0].upper(), _CLASSES, map(int, column), (name,))
        for name, column in zip(("amazon", "dslr", "webcam"), _COLUMNS, strict=True)
    ),
    pairs=("W/A", "A/W", "A/D", "D/A", "D/W", "W/D"),
    licence="none stated; for research",
    source="https://faculty.cc.gatech.edu/~judy/domainadapt/",
    archives=("domain_adaptation_images.tar.gz",),
    get="fetch it with a browser from Google Drive (file id 0B4IapRTv9pJ1WGZVd1VDMmhwdlE), linked from that page",
    tree="amazon/images/<class>/frame_0001.jpg\ndslr/images/<class>/...\nwebcam/images/<class>/...",
    find=find_domain,
    archive_hints=("domainadaptationimages*", "office31*"),
    list_order=_CLASSES,
)
