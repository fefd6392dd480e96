"""What is made of results: calibration of device models, predictions beside measurements, explanations."""
