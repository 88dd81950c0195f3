# SPDX-License-Identifier: Apache-2.0
"""Links the names of public symbols in the site's pages to their reference, and orders what a search finds: hooks of MkDocs
(mkdocs.yml)."""

import html
import os
import re
import xml.etree.ElementTree

from mkdocs.utils import get_relative_url

NAME = re.compile(r"<code>((?:&lt;tutti/[\w/]+\.h&gt;)|(?:tutti::)?[A-Za-z_]\w*(?:::\w+)*(?:\(\))?)</code>(?!</a>)")


def on_config(config):
    """Reads what Doxygen has written of which symbol: {name: page}, without names that stand for several."""
    tree = xml.etree.ElementTree.parse(os.environ["SITE_SYMBOLS"])
    pages = {}

    def add(name, page):
        pages.setdefault(name, set()).add(page)

    for compound in tree.iter("compound"):
        name, file = compound.findtext("name"), compound.findtext("filename")
        if compound.get("kind") == "file":
            path = compound.findtext("path").rpartition("/include/")[2]
            add(f"<{path}{name}>", file if file.endswith(".html") else file + ".html")
        elif compound.get("kind") in ("class", "struct", "concept"):
            add(name.removeprefix("tutti::"), file)
        if compound.get("kind") == "namespace" and name == "tutti":
            for member in compound.iter("member"):
                add(member.findtext("name"), member.findtext("anchorfile") + "#" + member.findtext("anchor"))
        elif compound.get("kind") in ("class", "struct"):
            for member in compound.iter("member"):
                add(f"{name.removeprefix('tutti::')}::{member.findtext('name')}", member.findtext("anchorfile") + "#" + member.findtext("anchor"))
    # A word that names a member, too, as `save` or `mean` do, may mean that. Of overloads the first.
    members = {name.rpartition("::")[2] for name in pages if "::" in name}
    meant = {name: found for name, found in pages.items() if "::" in name or name[0] in "<" or name[0].isupper() or name not in members}
    config.extra["symbols"] = {name: min(found) for name, found in meant.items() if len({page.split("#")[0] for page in found}) == 1}
    return config


def on_page_markdown(markdown, page, config, files):
    """What was decided or changed once comes last among what a search finds."""
    if page.file.src_uri.startswith(("CHANGELOG.md", "docs/decisions/")):
        page.meta["search"] = {"boost": 0.2}
    elif page.file.src_uri.startswith("docs/guides/"):
        page.meta["search"] = {"boost": 2}
    return markdown


def on_page_content(content, page, config, files):
    content = re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace("\\|", "|"), content)  # as tables write it
    symbols = config.extra["symbols"]

    def link(found):
        name = html.unescape(found[1]).removesuffix("()").removeprefix("tutti::")
        if name not in symbols:
            return found[0]
        return f'<a href="{get_relative_url("reference/" + symbols[name], page.url)}">{found[0]}</a>'

    return NAME.sub(link, content)
