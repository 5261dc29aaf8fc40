"""What a journal of a build under way says after damage."""

import json

from unihssl.data.journal import Journal


def test_a_line_about_files_that_are_not_there_is_passed_over(tmp_path):
    files = ["a", "b"]
    journal = Journal(tmp_path / "journal", lambda rows: "".join(files[row] for row in rows), sync=lambda: None)
    digest = "00" * 31 + "01"
    lines = [(0, 2, "ab", [(digest, None)] * 2), (5, 6, "x", [(digest, None)]), (1, 2, "other", [(digest, None)])]
    journal.path.write_text("\n".join(map(json.dumps, lines)))
    assert list(journal.read()) == [range(0, 2)]
