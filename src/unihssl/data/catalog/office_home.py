"""Office-Home (Venkateswara et al., 2017): everyday objects as art, clip art, product pictures and photographs."""

from unihssl.data.catalog.dataset import Dataset, domain_of
from unihssl.data.catalog.layouts import find_domain

# Counts from a public table. Sum, minimum and maximum of each column agree with the published ones, and eighteen of
# Art's with a public list file (github.com/jihanyang/AFN). Classes are matched by name: the numbers in list files
# follow another order (Drill 0, Exit_Sign 1, ... Marker 64).
_COUNTS = """
    class        art clipart product real_world
    Alarm_Clock    74  60  79  86
    Backpack       41  56  99  99
    Batteries      27  64  62  64
    Bed            40  98  43  83
    Bike           75  99  44  99
    Bottle         99  99  62  78
    Bucket         40  73  47  80
    Calculator     33  46  81  73
    Calendar       20  78  81  68
    Candles        76  99  56  99
    Chair          69  99  99  96
    Clipboards     25  40  65  65
    Computer       44  99  96  64
    Couch          40  64  88  76
    Curtains       40  42  75  73
    Desk_Lamp      23  41  83  62
    Drill          15  48  67  51
    Eraser         18  40  41  43
    Exit_Sign      21  41  67  81
    Fan            45  50  58  60
    File_Cabinet   22  40  71  58
    Flipflops      46  40  99  85
    Flowers        90  99  91  75
    Folder         20  99  90  57
    Fork           46  61  41  36
    Glasses        40  52  67  60
    Hammer         40  99  57  52
    Helmet         79  69  90  60
    Kettle         46  40  72  72
    Keyboard       18  99  99  75
    Knives         72  53  41  83
    Lamp_Shade     49  40  54  78
    Laptop         51  99  99  67
    Marker         20  71  56  23
    Monitor        42  99  98  71
    Mop            32  40  72  46
    Mouse          18  76  96  60
    Mug            49  99  41  58
    Notebook       21  83  93  68
    Oven           20  40  68  64
    Pan            19  51  70  30
    Paper_Clip     19  40  47  68
    Pen            20  99  60  65
    Pencil         26  99  40  59
    Postit_Notes   19  41  38  67
    Printer        18  87  99  52
    Push_Pin       24  40  43  53
    Radio          47  46  43  66
    Refrigerator   49  40  59  75
    Ruler          15  67  58  41
    Scissors       20  99  99  77
    Screwdriver    30  75  40  51
    Shelf          42  42  49  66
    Sink           41  42  46  77
    Sneakers       46  43  99  88
    Soda           40  61  43  63
    Speaker        20  90  99  81
    Spoon          46  60  47  54
    TV             40  99  76  53
    Table          16  80  60  59
    Telephone      44  99  58  82
    ToothBrush     43  39  42  85
    Toys           20  99  45  67
    Trash_Can      21  53  93  81
    Webcam         16  40  98  49
"""
_CLASSES, *_COLUMNS = zip(*(line.split() for line in _COUNTS.strip().splitlines()[1:]), strict=True)
_PAIRS = "Ar/Cl Cl/Ar Cl/Rw Rw/Cl Rw/Ar Ar/Rw Ar/Pr Pr/Ar Cl/Pr Pr/Cl Pr/Rw Rw/Pr"


DATASET = Dataset(
    name="office-home",
    title="Office-Home",
    classes=_CLASSES,
    domains=(
        domain_of("art", "Ar", _CLASSES, map(int, _COLUMNS[0]), ("Art",), also="A"),
        domain_of("clipart", "Cl", _CLASSES, map(int, _COLUMNS[1]), ("Clipart",), also="C"),
        domain_of("product", "Pr", _CLASSES, map(int, _COLUMNS[2]), ("Product",), also="P"),
        domain_of("real_world", "Rw", _CLASSES, map(int, _COLUMNS[3]), ("Real World",), also="R"),
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
