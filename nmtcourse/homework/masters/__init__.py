"""The masters of the homework, a module an assignment; everything else is made from them."""
