"""Classes of other packages, with their names, arguments and behaviour, over ddpcache. See docs/drop-ins.md."""
