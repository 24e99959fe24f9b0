"""The main job: a small language model, trained by a small cluster on this machine."""
