"""The accuracy of predictions, compared with published measurements and with the lab: a tool for developers."""
