"""Office-Home (Venkateswara et al., 2017): everyday objects as art, clip art, product pictures and photographs."""

from unihssl.data.catalog.dataset import CatalogDomain, Dataset
from unihssl.data.catalog.folders import find_domain

# Matched by name: the numbers in list files follow another order (Drill 0, Exit_Sign 1, ... Marker 64).
_CLASSES = """
    Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards Computer
    Couch Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder Fork Glasses
    Hammer Helmet Kettle Keyboard Knives Lamp_Shade Laptop Marker Monitor Mop Mouse Mug Notebook Oven Pan
    Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin Radio Refrigerator Ruler Scissors Screwdriver Shelf Sink
    Sneakers Soda Speaker Spoon TV Table Telephone ToothBrush Toys Trash_Can Webcam
"""
_PAIRS = "Ar/Cl Cl/Ar Cl/Rw Rw/Cl Rw/Ar Ar/Rw Ar/Pr Pr/Ar Cl/Pr Pr/Cl Pr/Rw Rw/Pr"

DATASET = Dataset(
    name="office-home",
    title="Office-Home",
    classes=tuple(_CLASSES.split()),
    domains=(  # totals alone: no published table of classes is at hand
        CatalogDomain("art", "Ar", 2427, folders=("Art",), also=("A",)),
        CatalogDomain("clipart", "Cl", 4365, folders=("Clipart",), also=("C",)),
        CatalogDomain("product", "Pr", 4439, folders=("Product",), also=("P",)),
        CatalogDomain("real_world", "Rw", 4357, folders=("Real World",), also=("R",)),
    ),
    pairs=tuple(_PAIRS.split()),
    licence="none stated; for non-commercial research",
    source="https://www.hemanthdv.org/officeHomeDataset.html",
    archives=("OfficeHomeDataset_10072016.zip",),
    get="fetch it with a browser from Google Drive (file id 0B81rNlvomiwed0V1YUxQdC1uOTg), linked from that page",
    tree="Art/<class>/00001.jpg\nClipart/<class>/...\nProduct/<class>/...\nReal World/<class>/...",
    find=find_domain,
    archive_hints=("officehome*",),
)
