from stack import Stack

stack = Stack()
try:
    stack.peek()
except IndexError:
    pass
else:
    raise AssertionError("an empty stack has no top")
stack.push(1)
stack.push(2)
assert stack.peek() == 2
assert stack.peek() == 2
assert len(stack) == 2
assert stack.pop() == 2
assert stack.peek() == 1
