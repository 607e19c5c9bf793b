"""The tools that find out what is wrong, their commands, and what these share: nothing that a call
uses imports this folder.
"""
