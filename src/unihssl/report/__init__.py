"""The report of a run as one HTML file, and runs side by side. Reads run folders, and shows what evaluation gives."""

from unihssl.report.compare import is_single as is_single
from unihssl.report.compare import write_comparison as write_comparison
from unihssl.report.page import write_report as write_report
