"""The probe actor in the form that each system wants, in importable modules."""
