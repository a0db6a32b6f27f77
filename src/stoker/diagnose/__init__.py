"""Profile and Forecast in, Diagnosis out: ledger, verdict, ranked fixes."""
