"""The JSON models that the API and the SDK share: data without behavior, with one module per resource."""
