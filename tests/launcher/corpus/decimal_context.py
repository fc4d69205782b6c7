import decimal

print(decimal.getcontext().prec, decimal.Decimal(1) / 3)
decimal.Decimal(1) / 0
