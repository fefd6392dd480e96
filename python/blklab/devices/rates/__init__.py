"""What strangers' measurements say of the rates of a flash disk that was not measured."""
