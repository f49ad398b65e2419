"""The door to xDSL: context, types, locations, text. Importing a module here imports xDSL."""
