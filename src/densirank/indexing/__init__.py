"""An index beside a model: built, measured, and kept with it."""
