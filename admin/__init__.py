"""What a person starts: the daily check, the doctor, the change to another model.

May import: access, api, config, core, embedder, embedding, memory, mnelo_locale, recall,
store, text, upkeep.
"""
