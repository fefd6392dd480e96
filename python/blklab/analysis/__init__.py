"""What is made of results: calibrations, predictions beside measurements, explanations."""
