"""Explain exceptions: what usually causes them in an answer, and where to look."""

import re


class RefusedError(Exception):
    """Raised when an answer calls or returns something forbidden; the message is for the learner."""


EXPLANATIONS = {
    r"IndexError: Dimension out of range": (
        "This tensor has fewer axes than your code expects. Count axes from the end (-1 is the last), so that "
        "any number of axes can come before them."
    ),
    r"(IndexError: too many indices for tensor|(IndexError|RuntimeError): .*is out of bounds for dimension)": (
        "You index a tensor with more axes, or further along an axis, than it has. Compare the shapes below with "
        "the axes you had in mind."
    ),
    r"IndexError: index out of range in self": (
        "An id is too large for the table. Is this the table that belongs to these ids, and do you index its rows?"
    ),
    r"IndexError: (list|string|tuple|deque).* out of range|IndexError: pop from empty": (
        "Your code takes an entry that isn't there. What if the list is empty, or you have reached its end?"
    ),
    r"KeyError: .*already exists": (
        "The module already has an attribute of this name: it was assigned before. One of the two steps is enough."
    ),
    r"KeyError": ("There is no entry with this key. What should happen when a key is missing?"),
    r"ZeroDivisionError": ("The number that you divide by can be 0. When is it 0, and what should the result be then?"),
    r"ValueError: (min|max)\(\)|ValueError: .*(empty sequence|iterable argument is empty)|IndexError: .*max\(\)": (
        "There is nothing left to choose from. What should happen then?"
    ),
    r"(ValueError: (math domain error|expected a (positive|nonnegative) input))": (
        "There is no such root or logarithm: the number is 0 or negative. When does that happen, and what should "
        "the result be then?"
    ),
    r"OverflowError": ("A number becomes too large. Can you compute with smaller ones, for instance with logarithms?"),
    r"RuntimeError: The size of tensor a .* must match|(RuntimeError|IndexError): .*(broadcast|expanded size)": (
        "The shapes of two tensors can't be broadcast here: counted from the last axis, two lengths have to be equal, "
        "or one of them has to be 1. Which axis did you have in mind for each? Print both shapes before this line."
    ),
    r"RuntimeError: (mat1 and mat2 shapes|mat1 dim|.*batch[12]|expected .*batch|size mismatch|"
    r"inconsistent tensor size|.*must have same reduction dim|vector and)|RuntimeError: .*(matmul|bmm)": (
        "These two tensors can't be multiplied: the last axis of the first must be as long as the second-to-last axis "
        "of the second, and the axes before these must agree. Does each come from the input you meant, and does one of "
        "them have to be transposed?"
    ),
    r"RuntimeError: shape '.*' is invalid": (
        "The product of the new lengths isn't the tensor's number of elements. Which length belongs to which axis? See "
        "the shapes below."
    ),
    r"RuntimeError: unflatten: Provided sizes": (
        "The product of the new lengths isn't the length of the axis that you split. Which length is which?"
    ),
    r"RuntimeError: t\(\) expects a tensor with <= 2 dimensions": (
        "`t` is only for matrices, and this tensor has more axes. Which two of them do you want to exchange?"
    ),
    r"RuntimeError: view size is not compatible": (
        "`view` can't be used here, because the tensor's numbers aren't in this order in memory, as after a "
        "`transpose` or in a slice. `reshape` copies them if it has to."
    ),
    r"RuntimeError: stack expects a non-empty": (
        "There is nothing to put together: the list is empty. When is it empty, and what should happen then?"
    ),
    r"RuntimeError: (stack expects|Sizes of tensors must match|Tensors must have same number)": (
        "The tensors that you put together have different shapes. Which axis differs, and should it?"
    ),
    r"(NotImplementedError|RuntimeError): \"bitwise_": (
        "`&`, `|` and `~` need booleans or integers on both sides. Is a comparison beside them missing its "
        "parentheses, as in `(x < 1) & (y > 2)`?"
    ),
    r"(RuntimeError|TypeError|IndexError|NotImplementedError): .*(expected scalar type|same dtype|"
    r"must have the same dtype|to be of type|used as indices must be|expected m1 and m2|Long did not match|"
    r"can't be cast|must be of integer type|only supported for|not implemented for|could not infer output dtype|"
    r"one of the following scalar types)": (
        "A tensor has the wrong dtype for this step, such as floats where ids or booleans are needed. Which "
        "dtype does each tensor have?"
    ),
    r"((RuntimeError|ValueError): (Index tensor|Expected (input|target)|Dimension specified|.*number of dimensions)"
    r"|IndexError: The shape of the mask)": (
        "Two tensors need the same number of axes here, or axes of the same lengths, and don't have them. Compare the "
        "shapes with those in the function's description."
    ),
    r"IndexError|StopIteration": ("Your code takes an entry that isn't there. Where does your index begin and end?"),
    r"RuntimeError: upper bound and lower bound": (
        "The range ends before it begins: are its arguments in the right order?"
    ),
    r"RuntimeError: Boolean value of Tensor": (
        "A tensor with several entries can't be true or false as a whole: `if`, `and`, `or`, `not` and Python's `max` "
        "and `min` need a single one. Compare entry by entry with `&`, `|`, `~` or `torch.where`."
    ),
    r"RuntimeError: (element \d+ of tensors does not require grad|.*does not require grad)": (
        "The result isn't connected with the tensor whose gradient you want. Was gradient tracking switched on "
        "before the computation, and does nothing cut it off?"
    ),
    r"RuntimeError: (a leaf Variable|a view of a leaf)": (
        "You change in place a tensor whose gradient is needed. Make a new one."
    ),
    r"RuntimeError: grad can be implicitly": ("`backward` starts from a single number: sum or average first."),
    r"RuntimeError: Trying to backward": (
        "`backward` has already gone through a part of this computation. Call it once for each loss that you compute, "
        "not on a running total."
    ),
    r"RuntimeError: .*modified by an inplace operation": (
        "You change in place a tensor that the gradient is still computed from. Make a new one: write `x = x + y` "
        "rather than `x += y`."
    ),
    r"(RuntimeError|ValueError): .*(numel|only one element|item\(\)|cannot be converted to Scalar|.*scalar)": (
        "Your code takes a tensor with several entries for a single number."
    ),
    r"ValueError: x and y must have same first dimension": (
        "matplotlib needs as many x values as y values. How many epochs are there?"
    ),
    r"ValueError: The number of FixedLocator locations": (
        "An axis needs as many labels as positions. Which of the two belongs to the other axis?"
    ),
    r"TypeError: cannot assign .* as parameter": (
        "A layer's weight has to be a parameter. `.T`, `.data`, `detach` and every computation return a plain tensor. "
        "Assign the parameter itself, or change its numbers in place."
    ),
    r"TypeError: .* is not a Module subclass": (
        "This entry is a class or a function, not a module. Call it, with its arguments in parentheses."
    ),
    r"TypeError: BLEU: ": (
        "sacrebleu compares texts. It expects a list of them, and a list of lists of references. Have you decoded the "
        "ids, and is each list nested as it should be?"
    ),
    r"ValueError: .* is not in list": (
        "`index` stops with an error if the list doesn't contain the value. When is it missing, and what should "
        "happen then?"
    ),
    r"AttributeError: cannot assign .* before Module.__init__\(\) call": (
        "`super().__init__()` has to be the first line of your `__init__`: it creates the tables in which PyTorch "
        "registers the parts of a module."
    ),
    r"NotImplementedError: Module \[.*\] is missing the required \"forward\"": (
        "You call a module that only holds weights. Use its layers, or the function that computes with them."
    ),
    r"ValueError: .*unpack|TypeError: cannot unpack": (
        "The number of names on the left isn't the number of values on the right. What does the right side consist of?"
    ),
    r"ValueError: slice step cannot be zero": (
        "A slice is written `[start:stop:step]`, and the step can be 0 here. Are the three in the right order?"
    ),
    r"(ValueError: dictionary|TypeError: cannot convert dictionary) update sequence": (
        "A dict is made of pairs, and here an entry isn't one. Print what you pass to `dict`: was it split at the "
        "right places?"
    ),
    r"ValueError: zip\(\)": ("`zip(…, strict=True)` got sequences of different lengths."),
    r"(UnboundLocalError|NameError)": (
        "This name has no value yet. Is it spelled as elsewhere, and set on every path, even when a loop or an `if` "
        "isn't entered?"
    ),
    r"TypeError: .*(missing|takes|unexpected keyword|multiple values for)": (
        "This call has the wrong arguments: compare it with the description of the function."
    ),
    r"TypeError: unsupported operand type\(s\) for \^": (
        "In Python, `^` is an operation on bits. A power is written `**`."
    ),
    r"TypeError: unhashable type": (
        "The keys of a dict and the elements of a set must be immutable. Use a tuple in place of a list."
    ),
    r"TypeError: .* object is not callable": (
        "You put parentheses after a value that isn't a function, and Python tries to call it. Is an operator missing? "
        "Is it a list whose entries should be called one by one? Or does another value have the function's name?"
    ),
    r"TypeError: .*(function|method)\S* object is not subscriptable": (
        "You put square brackets after a function. Call it first, with parentheses."
    ),
    r"TypeError: '(Loader|generator|map|zip)' object is not subscriptable|TypeError: object of type "
    r"'(Loader|generator|map|zip)' has no len": (
        "This is an iterable. A loop can go through its entries, but it may have no length, and its entries can't be "
        "indexed. Count in your loop, or make a list of it first."
    ),
    r"ValueError: expected sequence of length": (
        "A tensor is rectangular, and your rows have different lengths. Pad the shorter ones first."
    ),
    r"TypeError: .*NoneType": ("One of these values is None. Does the function that it comes from return anything?"),
    r"TypeError": ("A value has a different type than this step needs. Print its type before this line."),
    r"AttributeError": ("This value has no such method or attribute. Is it what you think it is?"),
    r"RecursionError": ("The function calls itself again and again: nothing ends it."),
}
"""The beginning of an exception's type and message, as a regular expression → its explanation."""


def explain(error: BaseException) -> str | None:
    """Return what usually causes such an exception."""
    text = f"{type(error).__name__}: {error}"
    return next((said for pattern, said in EXPLANATIONS.items() if re.match(pattern, text, re.DOTALL)), None)
