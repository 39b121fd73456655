from account import Account
from shop import pay

account = Account("Ada", 10)
for work in (account.deposit, account.withdraw):
    for amount in (0, -5):
        try:
            work(amount)
        except ValueError:
            pass
        else:
            raise AssertionError((work, amount))
assert account.balance == 10
assert account.deposit(5) == 15
assert account.withdraw(4) == 11
try:
    account.withdraw(100)
except ValueError:
    pass
else:
    raise AssertionError("overdrawn")
assert pay(account, 1) == 10
assert account.owner == "Ada"
