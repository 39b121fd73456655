from account import Account


def pay(account: Account, price):
    return account.withdraw(price)
