def step(number):
    return number // 2 if number % 2 == 0 else 3 * number + 1


number, steps = 27, 0
while number != 1:
    number, steps = step(number), steps + 1
print("steps:", steps)
