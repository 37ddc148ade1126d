"""Parses a document by lxml several times, asks it by XPath, changes it and writes it."""

import sys

from lxml import etree

total = 0
for kind in range(4):
    tree = etree.parse(sys.argv[1])
    for record in tree.xpath("//record[@kind=$kind]", kind=str(kind)):
        record.getparent().remove(record)
    total += len(etree.tostring(tree)) + int(tree.xpath("count(//name[contains(., 'ta')])"))
print(total)
