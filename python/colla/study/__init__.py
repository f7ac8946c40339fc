"""Draws what ``colla study`` measured, and what training directories hold.

The command ``colla`` starts this package as ``python -m colla.study``. It needs matplotlib
(``pip install "colla[study]"``), and nothing else of Colla.
"""
