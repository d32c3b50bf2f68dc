"""How Sphinx makes one site of the pages, and of the docstrings that they ask for. `make docs` builds it.

The source directory is the root of the repository and not docs/, so that a link from a page to README.md or to an
example, written as GitHub reads it, is a link for Sphinx too, and is checked.
"""

project = "dramatiq-unique"
project_copyright = "dramatiq-unique contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/*.md"]
exclude_patterns = [".*", "build", "dist"]  # not even looked into
myst_heading_anchors = 4  # as GitHub makes them

autodoc_member_order = "bysource"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(collections|dramatiq|redis)\..*"),  # what others document: the build needs no network
    ("py:class", r"dramatiq_unique\.(explaining\.Explaining|journal\.Journal)"),  # what the middleware gives to Locks
    ("py:class", r"dramatiq_unique\.(middleware\.Subscriber|testing\.Function)"),  # type variables
]

html_theme = "furo"
html_title = project
templates_path = ["_templates"]
html_additional_pages = {"index": "to-the-docs.html"}
maximum_signature_line_length = 100
