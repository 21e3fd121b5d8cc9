"""What is done for the file in the background: checkpoints, trimming, purging, backups.

`background.py` is the thread that one process of several on a file runs; `keeper.py` says what it
does; `backup.py` makes copies and puts one back.
May import: access, config, core, mnelo_locale, store.
"""
